//! A JSON text in one form, hashed: what [`super::fingerprint`] stands on, and the strict second look at a body.
//!
//! serde_json passes over duplicate keys, lone surrogates and endless nesting in what it does not turn into values,
//! and turns long numbers into floating point. This reads the text itself, after serde_json has found its syntax right.

use std::borrow::Cow;
use std::ops::Range;

use sha2::{Digest, Sha256};

/// How deep arrays and objects may be nested: serde_json's own bound for values.
pub(super) const MAX_DEPTH: usize = 128;

/// Why a text is refused, and the byte where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Defect {
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep(usize),
    /// A key that its object has already.
    Duplicate(usize, String),
    /// A string that is no text: half of a surrogate pair.
    NotText(usize),
    /// Not JSON.
    Malformed(usize),
}

/// The digest of a request body: its canonical form, without what [`Place`] leaves out.
///
/// The canonical form is tagged and length-prefixed, so that no two values share one: strings unescaped, numbers by
/// their exact decimal value, objects with their keys sorted by bytes; an array or object stands in its parent as
/// its own digest.
pub(super) fn digest(text: &str, max_depth: usize) -> Result<[u8; 32], Defect> {
    let mut reader = Reader { text, at: 0, max_depth };
    let mut form = Vec::new();
    reader.value(Place::Top, 0, &mut form)?;
    reader.skip_space();
    if reader.at != text.len() {
        return Err(Defect::Malformed(reader.at));
    }
    Ok(Sha256::digest(&form).into())
}

/// Where a value stands: what the server makes anew for each request does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Attachments,
    Attachment,
    Elsewhere,
}

impl Place {
    fn counts(self, key: &str) -> bool {
        match self {
            Self::Top => key != "timeout_ms",
            Self::Attachment => key != "url" && key != "expires_at",
            Self::Attachments | Self::Elsewhere => true,
        }
    }

    fn of_field(self, key: &str) -> Self {
        if self == Self::Top && key == "attachments" { Self::Attachments } else { Self::Elsewhere }
    }

    fn of_item(self) -> Self {
        if self == Self::Attachments { Self::Attachment } else { Self::Elsewhere }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    max_depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// The next byte that is not white space, if it is `expected`.
    fn take(&mut self, expected: u8) -> Result<(), Defect> {
        self.skip_space();
        if self.peek() != Some(expected) {
            return Err(Defect::Malformed(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, place: Place, depth: usize, form: &mut Vec<u8>) -> Result<(), Defect> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(place, depth, form),
            Some(b'[') => self.array(place, depth, form),
            Some(b'"') => {
                let text = self.string()?;
                put(form, b's', text.as_bytes());
                Ok(())
            }
            Some(b't') => self.word("true", b't', form),
            Some(b'f') => self.word("false", b'f', form),
            Some(b'n') => self.word("null", b'z', form),
            _ => self.number(form),
        }
    }

    fn word(&mut self, word: &str, tag: u8, form: &mut Vec<u8>) -> Result<(), Defect> {
        if !self.rest().starts_with(word) {
            return Err(Defect::Malformed(self.at));
        }
        self.at += word.len();
        form.push(tag);
        Ok(())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Defect> {
        let start = self.at;
        let malformed = Defect::Malformed(start);
        self.take(b'"')?;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
                None => return Err(malformed),
            }
        }
        self.at += 1;
        if escaped {
            let quoted = self.text.get(start..self.at).ok_or(malformed)?;
            return serde_json::from_str::<String>(quoted).map(Cow::Owned).map_err(|_| Defect::NotText(start));
        }
        self.text.get(start + 1..self.at - 1).map(Cow::Borrowed).ok_or(malformed)
    }

    fn number(&mut self, form: &mut Vec<u8>) -> Result<(), Defect> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        match self.text.get(start..self.at) {
            Some(number) if !number.is_empty() => put(form, b'n', canonical_number(number).as_bytes()),
            _ => return Err(Defect::Malformed(start)),
        }
        Ok(())
    }

    fn array(&mut self, place: Place, depth: usize, form: &mut Vec<u8>) -> Result<(), Defect> {
        self.open(b'[', depth)?;
        let (mut items, mut count) = (Vec::new(), 0_u64);
        let mut more = !self.closes(b']');
        while more {
            self.value(place.of_item(), depth + 1, &mut items)?;
            count += 1;
            more = self.goes_on(b']')?;
        }
        let mut hash = Sha256::new();
        hash.update(count.to_le_bytes());
        hash.update(&items);
        form.push(b'a');
        form.extend_from_slice(&hash.finalize());
        Ok(())
    }

    fn object(&mut self, place: Place, depth: usize, form: &mut Vec<u8>) -> Result<(), Defect> {
        self.open(b'{', depth)?;
        let mut values = Vec::new();
        let mut fields: Vec<(Cow<'a, str>, usize, Range<usize>)> = Vec::new();
        let mut more = !self.closes(b'}');
        while more {
            self.skip_space();
            let key_at = self.at;
            let key = self.string()?;
            self.take(b':')?;
            let start = values.len();
            self.value(place.of_field(&key), depth + 1, &mut values)?;
            fields.push((key, key_at, start..values.len()));
            more = self.goes_on(b'}')?;
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
        if let Some([_, (key, at, _)]) = fields.array_windows::<2>().find(|[a, b]| a.0 == b.0) {
            return Err(Defect::Duplicate(*at, key.to_string()));
        }
        let mut hash = Sha256::new();
        for (key, _, range) in fields.iter().filter(|(key, ..)| place.counts(key)) {
            hash.update((key.len() as u64).to_le_bytes());
            hash.update(key.as_bytes());
            hash.update(values.get(range.clone()).unwrap_or_default());
        }
        form.push(b'o');
        form.extend_from_slice(&hash.finalize());
        Ok(())
    }

    fn open(&mut self, bracket: u8, depth: usize) -> Result<(), Defect> {
        if depth >= self.max_depth {
            return Err(Defect::TooDeep(self.at));
        }
        self.take(bracket)
    }

    /// Whether the next thing is the closing bracket; takes it then.
    fn closes(&mut self, bracket: u8) -> bool {
        self.take(bracket).is_ok()
    }

    /// After an item: a comma (and there is more) or the closing bracket.
    fn goes_on(&mut self, bracket: u8) -> Result<bool, Defect> {
        if self.closes(bracket) {
            return Ok(false);
        }
        self.take(b',').map(|()| true)
    }
}

fn put(form: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    form.push(tag);
    form.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    form.extend_from_slice(bytes);
}

/// A number by its exact value: its significant digits and a power of ten. `1`, `1.0` and `10e-1` are one number.
fn canonical_number(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return "0".to_owned();
    }
    let trailing = all.len() - all.trim_end_matches('0').len();
    match exponent.parse::<i64>() {
        Ok(exponent) => {
            let power = i128::from(exponent) + trailing as i128 - fraction.len() as i128;
            format!("{sign}{digits}e{power}")
        }
        // A power of more than 18 digits: by its spelling.
        Err(_) => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_by_their_value() {
        for (a, b) in [("1", "1.0"), ("1", "10e-1"), ("0", "-0.00e9"), ("120", "1.2E+2"), ("-5", "-0.5e1")] {
            assert_eq!(canonical_number(a), canonical_number(b), "{a} and {b}");
        }
        let different =
            [("1", "-1"), ("0.1", "0.1000000000000000055"), ("18446744073709551616", "18446744073709551617")];
        for (a, b) in different {
            assert_ne!(canonical_number(a), canonical_number(b), "{a} and {b}");
        }
        assert_eq!(canonical_number("1e99999999999999999999"), "1e99999999999999999999");
    }

    #[test]
    fn finds_what_serde_passes_over() {
        assert_eq!(digest(r#"{"a":1,"b":{"c":1,"\u0063":2}}"#, 9), Err(Defect::Duplicate(18, "c".into())));
        assert_eq!(digest(r#"["\ud800"]"#, 9), Err(Defect::NotText(1)));
        assert_eq!(digest("[[[]]]", 2), Err(Defect::TooDeep(2)));
        assert!(digest("[[[]]]", 3).is_ok());
        for broken in ["", "{", "[1", "[1 2]", "{\"a\" 1}", "\"", "tru", "1 2", "{\"a\":}", "\"\\"] {
            assert!(digest(broken, 9).is_err(), "{broken}");
        }
    }
}
