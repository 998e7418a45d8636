//! The descriptions of the API's definitions, compressed: only people read them, so the server
//! decompresses them on demand.

use std::io::{Read, Write};

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::definitions::Definitions;

/// Returns the lines about definitions that are `served`.
pub(crate) fn lines(data: &str, served: &Definitions) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut fields = None;
    for line in data.lines() {
        let (name, _) =
            line.trim_start_matches('\t').split_once('\t').context("a line has no name or no description")?;
        if !line.starts_with('\t') {
            fields = served.get(name).map(|it| it.get("properties"));
        } else if let Some(known) = fields
            && known.and_then(|it| it.get(name)).is_none()
        {
            bail!("{name} is described as a field but is not in the definition");
        }
        if fields.is_some() {
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text)
}

/// Compresses a text with gzip at its best level.
pub(crate) fn compress(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

/// Decompresses a text. Returns an empty string if the bytes are damaged or missing.
pub(crate) fn decompress(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).map_or_else(|_| String::new(), |_| text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_descriptions_of_served_definitions_are_kept_and_compression_is_lossless() {
        let served = Definitions::from([("a.A".to_owned(), json!({"properties": {"x": {}}}))]);
        let kept = lines("a.A\tAn A\n\tx\tIts x\na.B\tA B\n\ty\tIts y\n", &served).unwrap();
        assert_eq!(kept, "a.A\tAn A\n\tx\tIts x\n");
        assert_eq!(decompress(&compress(&kept).unwrap()), kept);
        assert_eq!(decompress(b"nothing"), "");
        assert!(lines("a.A\tAn A\n\ty\tIts y\n", &served).is_err());
    }
}
