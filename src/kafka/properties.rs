//! Whether librdkafka knows a property and takes its value: asked of librdkafka itself, so that a mistyped one is found
//! before anything connects. Rules between properties are only known when a client is made; they are not checked here.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Nothing when librdkafka takes `value` for `name`, or its own words against it.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    if name.contains('\0') || value.contains('\0') {
        return Err("holds a NUL byte, which librdkafka cannot take; remove it".into());
    }
    match ClientConfig::new().set(name, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(_, reason, _, _)) => {
            Err(format!("librdkafka refuses it: {reason}; see its CONFIGURATION.md for names and values"))
        }
        Err(other) => Err(format!("librdkafka refuses it: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_properties_with_good_values_pass() {
        for (name, value) in [
            ("security.protocol", "SASL_SSL"),
            ("sasl.password", "anything at all"),
            ("fetch.max.bytes", "1048576"),
            ("compression.type", "zstd"),
            ("enable.ssl.certificate.verification", "true"),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
    }

    #[test]
    fn mistyped_names_and_values_are_refused_in_librdkafkas_words() {
        for (name, value, word) in [
            ("securty.protocol", "SSL", "securty.protocol"),
            ("security.protocol", "SLS", "Invalid value"),
            ("fetch.max.bytes", "many", "Invalid value"),
            ("fetch.max.bytes", "-1", "range"),
            ("", "", "No such configuration property"),
            ("client.id\0", "a", "NUL"),
            ("client.id", "a\0", "NUL"),
        ] {
            let refusal = check(name, value).unwrap_err();
            assert!(refusal.contains(word), "{name}={value}: {refusal}");
        }
    }
}
