//! What makes two bodies with one id the same.

use serde::{Deserialize, Serialize};

use super::canonical::{self, Defect};

/// A digest of a request body. Two bodies are the same when they are equal as JSON values — white space, the order
/// of keys, the spelling of escapes and of numbers do not matter — leaving out what the server makes anew when it
/// builds a request again: `timeout_ms`, and each attachment's `url` and `expires_at`. Everything else counts, fields
/// that this program does not know included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The digest of a parsed body. Numbers that [`serde_json::Value`] cannot hold were rounded by it;
    /// [`super::envelope::Envelope::parse`] takes the digest of the text itself.
    #[must_use]
    pub fn of(body: &serde_json::Value) -> Self {
        // A value's own text is JSON with no duplicate keys; its depth is the caller's.
        Self(canonical::digest(&body.to_string(), usize::MAX).unwrap_or_default())
    }

    /// The digest of a body as it came.
    pub(super) fn of_text(body: &str) -> Result<Self, Defect> {
        canonical::digest(body, canonical::MAX_DEPTH).map(Self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn leaves_out_what_the_server_makes_anew_and_only_there() {
        let body = |timeout: u64, url: &str, expires: u64| {
            json!({"id": "1", "timeout_ms": timeout, "message": {"text": "x"},
                "attachments": [{"file_name": "a", "url": url, "expires_at": expires}]})
        };
        assert_eq!(Fingerprint::of(&body(1, "a", 1)), Fingerprint::of(&body(2, "b", 2)));
        let differ = [
            (json!({"message": {"timeout_ms": 1}}), json!({"message": {"timeout_ms": 2}})),
            (json!({"url": "a"}), json!({"url": "b"})),
            (json!({"message": {"attachments": [{"url": "a"}]}}), json!({"message": {"attachments": [{"url": "b"}]}})),
            (json!({"attachments": [{"x": {"url": "a"}}]}), json!({"attachments": [{"x": {"url": "b"}}]})),
            (json!({"attachments": [{"url": "a"}]}), json!({"attachments": [{"url": "a"}, {"url": "b"}]})),
            (json!({"tags": null}), json!({})),
            (json!({"a": []}), json!({"a": {}})),
            (json!({"a": "1"}), json!({"a": 1})),
            (json!({"a": ["b", "c"]}), json!({"a": ["bc"]})),
            (json!({"a": [["b"], "c"]}), json!({"a": [["b", "c"]]})),
        ];
        for (a, b) in differ {
            assert_ne!(Fingerprint::of(&a), Fingerprint::of(&b), "{a} and {b}");
        }
    }

    #[test]
    fn numbers_beyond_floating_point_differ() {
        let of = |text: &str| Fingerprint::of_text(text).unwrap();
        assert_ne!(of(r#"{"n":18446744073709551616}"#), of(r#"{"n":18446744073709551617}"#));
        assert_eq!(of(r#"{"n":1e2}"#), of(r#"{"n":100.0}"#));
        assert_eq!(of(r#"{"n":1e400}"#), of(r#"{"n":10e399}"#));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The same value written with its keys turned round, with other white space and every character escaped.
    fn rewritten(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                out.push('"');
                for unit in text.encode_utf16() {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
                out.push('"');
            }
            Value::Array(items) => {
                out.push_str("[ ");
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "\n,\t" });
                    rewritten(item, out);
                }
                out.push_str("\r\n]");
            }
            Value::Object(map) => {
                out.push('{');
                for (i, (key, item)) in map.iter().rev().enumerate() {
                    out.push_str(if i == 0 { "" } else { " , " });
                    rewritten(&Value::from(key.as_str()), out);
                    out.push_str(" :");
                    rewritten(item, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    proptest! {
        #[test]
        fn spelling_does_not_matter(value in any_value()) {
            let value = json!({"message": value, "id": "x"});
            let mut text = String::new();
            rewritten(&value, &mut text);
            prop_assert_eq!(Fingerprint::of_text(&text).unwrap(), Fingerprint::of(&value));
        }

        #[test]
        fn any_change_matters(value in any_value(), which in any::<usize>(), added in any::<bool>()) {
            let body = json!({"message": value, "id": "x"});
            let mut changed = body.clone();
            let mut at = which % count(&body);
            change(&mut changed, &mut at, added);
            prop_assert!(body != changed);
            prop_assert_ne!(Fingerprint::of(&body), Fingerprint::of(&changed), "{} and {}", body, changed);
        }
    }

    /// How many values there are in a value, itself included.
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            _ => 0,
        }
    }

    /// Makes one small change to the value that is number `at`.
    fn change(value: &mut Value, at: &mut usize, added: bool) {
        if *at > 0 {
            *at -= 1;
            let inner: Vec<&mut Value> = match value {
                Value::Array(items) => items.iter_mut().collect(),
                Value::Object(map) => map.values_mut().collect(),
                _ => return,
            };
            for item in inner {
                let size = count(item);
                if *at < size {
                    return change(item, at, added);
                }
                *at -= size;
            }
            return;
        }
        match value {
            Value::String(text) if added => text.push('\0'),
            Value::Array(items) if added => items.push(Value::Null),
            Value::Object(map) if added => {
                let key = map.keys().next_back().map_or_else(String::new, |last| format!("{last}\0"));
                map.insert(key, Value::Null);
            }
            Value::Bool(b) => *b = !*b,
            Value::Number(n) if n.as_i64().is_some_and(|n| n < i64::MAX) => *value = (n.as_i64().unwrap() + 1).into(),
            other => *other = json!([other.take()]),
        }
    }
}
