//! The macros that declare keys (`section!`) and enumerations (`choice!`, `enum_names!`). One declaration yields the
//! type, its parsing, its defaults, and its part of the reference and of the effective configuration.

use std::marker::PhantomData;

use super::parser::{ConfigParser, Schema};
use super::suggest::{excerpt, nearest};
use super::tree::Node;

/// An enumeration whose variants a configuration writes by name.
pub trait ConfigEnum: Copy + PartialEq + 'static {
    /// The variants with their names, in the order in which the reference lists them.
    const VARIANTS: &'static [(Self, &'static str)];

    /// The name of the variant.
    fn name(self) -> &'static str;

    /// The names of all variants.
    fn names() -> Vec<&'static str> {
        Self::VARIANTS.iter().map(|(_, name)| *name).collect()
    }
}

/// The name of one of the variants of `E`.
#[derive(Debug)]
pub struct OneOf<E>(PhantomData<E>);

impl<E: ConfigEnum> Schema for OneOf<E> {
    type Value = E;

    fn syntax() -> String {
        E::names().join(" | ")
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<E> {
        let text = parser.scalar_text(node, &Self::syntax())?;
        let variant = E::VARIANTS.iter().find(|(_, name)| *name == text).map(|(variant, _)| *variant);
        if variant.is_none() {
            let hint = match nearest(text, &E::names()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("expected {}", Self::syntax()),
            };
            parser.error(node, format_args!("{} is not a valid value; {hint}", excerpt(text)));
        }
        variant
    }

    fn to_node(value: &E) -> Option<Node> {
        Some(Node::scalar(value.name()))
    }
}

/// Declares a section. Each key has its documentation, its schema, and either a default (`= "text"`), a description of
/// how its default follows from other keys (`, derived "text"`), or neither; `, eg "text"` is an example. `check` names a
/// function that sees the section once its keys are parsed: it resolves derived defaults and checks keys against each
/// other.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $key_doc:literal])*
                $key:ident: $schema:ty $(= $default:literal)? $(, derived $derived:literal)? $(, eg $example:literal)?;
            )*
        }
        $(check $check:path)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $key_doc])* pub $key: <$schema as $crate::config::parser::Schema>::Value, )*
        }

        impl $crate::config::parser::Schema for $name {
            type Value = Self;

            fn syntax() -> String {
                format!("a section with {}", [$(stringify!($key)),*].join(", "))
            }

            fn from_node(
                node: &$crate::config::tree::Node,
                parser: &mut $crate::config::parser::ConfigParser,
            ) -> Option<Self> {
                if !parser.expect_keys(node, &[$(stringify!($key)),*]) {
                    return None;
                }
                $(
                    let texts = $crate::config::declare::texts!($($default)?; $($derived)?; $($example)?);
                    let $key = parser.parse_key::<$schema>(node, stringify!($key), texts);
                )*
                #[allow(unused_mut)]
                let mut section = Self { $( $key: $key?, )* };
                $( $check(&mut section, node, parser); )?
                Some(section)
            }

            fn to_node(value: &Self) -> Option<$crate::config::tree::Node> {
                let entries = [$(
                    (stringify!($key), <$schema as $crate::config::parser::Schema>::to_node(&value.$key))
                ),*];
                let entries = entries.into_iter().filter_map(|(key, node)| Some((key.to_string(), node?))).collect();
                Some($crate::config::tree::Node::new($crate::config::tree::NodeKind::Map(entries)))
            }

            fn children() -> $crate::config::parser::Children {
                $crate::config::parser::Children::Keys(vec![$( $crate::config::parser::KeyDeclaration {
                    name: stringify!($key),
                    doc: &[$($key_doc),*],
                    syntax: <$schema as $crate::config::parser::Schema>::syntax(),
                    texts: $crate::config::declare::texts!($($default)?; $($derived)?; $($example)?),
                    is_optional: <$schema as $crate::config::parser::Schema>::absent_value().is_some(),
                    children: <$schema as $crate::config::parser::Schema>::children(),
                } ),*])
            }
        }
    };
}

/// Declares an enumeration of the configuration with the names of its variants.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $variant_doc:literal])* $variant:ident = $text:literal, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( $(#[doc = $variant_doc])* $variant, )* }

        $crate::config::declare::enum_names! { $name { $( $variant = $text, )* } }
    };
}

/// Names the variants of an enumeration that is declared elsewhere.
macro_rules! enum_names {
    ($name:ident { $( $variant:ident = $text:literal, )* }) => {
        impl $crate::config::declare::ConfigEnum for $name {
            const VARIANTS: &'static [(Self, &'static str)] = &[$( (Self::$variant, $text) ),*];

            fn name(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }
    };
}

/// The default, derived default and example of a key, each of which may be missing.
macro_rules! texts {
    ($($default:literal)?; $($derived:literal)?; $($example:literal)?) => {
        $crate::config::parser::KeyTexts {
            default: <[&'static str]>::first(&[$($default)?]).copied(),
            derived: <[&'static str]>::first(&[$($derived)?]).copied(),
            example: <[&'static str]>::first(&[$($example)?]).copied(),
        }
    };
}

pub(super) use {choice, enum_names, section, texts};
