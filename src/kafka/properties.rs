//! Checks librdkafka properties one at a time by asking librdkafka itself, so that a typo is found before a client
//! connects. librdkafka checks combinations of properties only when it creates a client; this module does not.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Fails with librdkafka's own message if it does not accept `value` for `name`.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    if name.contains('\0') || value.contains('\0') {
        return Err("contains a NUL byte, which librdkafka does not accept; remove it".into());
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
    fn known_properties_with_valid_values_are_accepted() {
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
    fn unknown_names_and_invalid_values_are_rejected_with_librdkafkas_message() {
        for (name, value, expected) in [
            ("securty.protocol", "SSL", "securty.protocol"),
            ("security.protocol", "SLS", "Invalid value"),
            ("fetch.max.bytes", "many", "Invalid value"),
            ("fetch.max.bytes", "-1", "range"),
            ("", "", "No such configuration property"),
            ("client.id\0", "a", "NUL"),
            ("client.id", "a\0", "NUL"),
        ] {
            let refusal = check(name, value).unwrap_err();
            assert!(refusal.contains(expected), "{name}={value}: {refusal}");
        }
    }
}
