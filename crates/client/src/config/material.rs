//! Tokens and certificates that entries contain or point to.
//!
//! Messages name the file or the format, never the content.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

/// Decodes the PEM text of a `…-data` field: base64, possibly broken over lines.
pub(super) fn pem(data: &str) -> Result<SecretString, String> {
    let compact: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = STANDARD.decode(compact).map_err(|_| "is not base64".to_owned())?;
    String::from_utf8(bytes).map(SecretString::from).map_err(|_| "is not base64 of PEM text".to_owned())
}

/// Reads a bearer token from a file, without surrounding white space.
pub(super) fn token(path: &Path) -> Result<SecretString, String> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        token => Ok(token.into()),
    }
}

/// Returns a file's content as base64, for a plugin.
pub(super) fn base64_of(path: &Path) -> Result<String, String> {
    fs::read(path).map(|bytes| STANDARD.encode(bytes)).map_err(|error| unreadable(path, &error))
}

/// Checks that a file can be read. Its content is read when it is used, and again when it changes.
pub(super) fn readable(path: &Path) -> Result<(), String> {
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(format!("{} is a directory", path.display())),
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn data_is_base64_of_text() {
        assert_eq!(pem("aGVs\n  bG8=\n").unwrap().expose_secret(), "hello");
        assert_eq!(pem("-----BEGIN").unwrap_err(), "is not base64");
        assert_eq!(pem("aGVsbG8").unwrap_err(), "is not base64");
        assert_eq!(pem("//79").unwrap_err(), "is not base64 of PEM text");
    }

    #[test]
    fn a_token_is_trimmed_and_never_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, " \nhush\n").unwrap();
        assert_eq!(token(&path).unwrap().expose_secret(), "hush");
        fs::write(&path, "\n").unwrap();
        assert_eq!(token(&path).unwrap_err(), format!("{} is empty", path.display()));
    }

    #[test]
    fn a_directory_is_not_readable() {
        let directory = tempfile::tempdir().unwrap();
        assert!(readable(directory.path()).unwrap_err().ends_with("is a directory"));
    }
}
