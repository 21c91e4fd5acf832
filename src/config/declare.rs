//! `section!` and `choice!`: the only places where keys and words are declared. From one declaration come the type,
//! its reading, its defaults, its part of the reference and its part of the effective configuration.

/// Declares a section: each key once, with its documentation, its kind, and a default (`= "text"`) or an example
/// (`eg "text"`). `rules` names a function that sees the whole section after its keys were read.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $key_doc:literal])* $key:ident: $kind:ty $(= $default:literal)? $(, eg $example:literal)?; )*
        }
        $(rules $rules:path)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $key_doc])* pub $key: <$kind as $crate::config::read::Kind>::Out, )*
        }

        impl $crate::config::read::Kind for $name {
            type Out = Self;

            fn form() -> String {
                format!("a section with {}", [$(stringify!($key)),*].join(", "))
            }

            fn read(
                node: &$crate::config::tree::Node,
                reader: &mut $crate::config::read::Reader,
            ) -> Option<Self> {
                if !reader.entries(node, &[$(stringify!($key)),*]) {
                    return None;
                }
                $( let $key = reader.key::<$kind>(node, stringify!($key), $crate::config::declare::texts!($($default)?; $($example)?)); )*
                #[allow(unused_mut)]
                let mut section = Self { $( $key: $key?, )* };
                $( $rules(&mut section, node, reader); )?
                Some(section)
            }

            fn show(out: &Self) -> Option<$crate::config::tree::Node> {
                let entries = [$( (stringify!($key), <$kind as $crate::config::read::Kind>::show(&out.$key)) ),*];
                let entries = entries.into_iter().filter_map(|(key, node)| Some((key.to_string(), node?))).collect();
                Some($crate::config::tree::Node::new($crate::config::tree::NodeKind::Map(entries)))
            }

            fn inside() -> $crate::config::read::Inside {
                $crate::config::read::Inside::Keys(vec![$( $crate::config::read::Key {
                    name: stringify!($key),
                    doc: &[$($key_doc),*],
                    form: <$kind as $crate::config::read::Kind>::form(),
                    texts: $crate::config::declare::texts!($($default)?; $($example)?),
                    is_optional: <$kind as $crate::config::read::Kind>::absent().is_some(),
                    inside: <$kind as $crate::config::read::Kind>::inside(),
                } ),*])
            }
        }
    };
}

/// Declares a closed set of words.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( $(#[doc = $word_doc])* $word, )* }

        impl $name {
            /// Every word, in declared order.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// The word as it is written.
            pub fn word(self) -> &'static str {
                match self { $( Self::$word => $text, )* }
            }
        }

        impl $crate::config::read::Kind for $name {
            type Out = Self;

            fn form() -> String {
                [$($text),*].join(" | ")
            }

            fn read(
                node: &$crate::config::tree::Node,
                reader: &mut $crate::config::read::Reader,
            ) -> Option<Self> {
                let text = reader.text(node, &Self::form())?;
                match text {
                    $( $text => Some(Self::$word), )*
                    other => {
                        let shown = $crate::config::words::excerpt(other);
                        let near = $crate::config::words::unknown("word", other, &[$($text),*]);
                        reader.report(node, format_args!("{shown}: {near}"));
                        None
                    }
                }
            }

            fn show(out: &Self) -> Option<$crate::config::tree::Node> {
                Some($crate::config::tree::Node::scalar(out.word()))
            }
        }
    };
}

/// A key's default and example, either of which may be missing.
macro_rules! texts {
    ($($default:literal)?; $($example:literal)?) => {
        $crate::config::read::Texts {
            default: <[&'static str]>::first(&[$($default)?]).copied(),
            example: <[&'static str]>::first(&[$($example)?]).copied(),
        }
    };
}

pub(super) use {choice, section, texts};
