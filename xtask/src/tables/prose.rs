//! The words of the API about its definitions, packed: read only by people, and so only unpacked when some ask.

use std::io::{Read, Write};

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::definitions::Definitions;

/// The lines about definitions that are `served`.
pub(crate) fn lines(facts: &str, served: &Definitions) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut fields = None;
    for line in facts.lines() {
        let (name, _) =
            line.trim_start_matches('\t').split_once('\t').context("a line has a name and words")?;
        if !line.starts_with('\t') {
            fields = served.get(name).map(|it| it.get("properties"));
        } else if let Some(known) = fields
            && known.and_then(|it| it.get(name)).is_none()
        {
            bail!("{name} is said to be a field, and is none");
        }
        if fields.is_some() {
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text)
}

/// The text in as few bytes as gzip needs.
pub(crate) fn pack(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

/// What was packed; nothing where the bytes are damaged or missing.
pub(crate) fn unpack(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).map_or_else(|_| String::new(), |_| text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_words_about_what_is_served_are_kept_and_come_back_as_they_were() {
        let served = Definitions::from([("a.A".to_owned(), json!({"properties": {"x": {}}}))]);
        let kept = lines("a.A\tAn A\n\tx\tIts x\na.B\tA B\n\ty\tIts y\n", &served).unwrap();
        assert_eq!(kept, "a.A\tAn A\n\tx\tIts x\n");
        assert_eq!(unpack(&pack(&kept).unwrap()), kept);
        assert_eq!(unpack(b"nothing"), "");
        assert!(lines("a.A\tAn A\n\ty\tIts y\n", &served).is_err());
    }
}
