//! Unique names for this process.

/// Returns a random name, different at each call: it distinguishes an elector from another one with
/// the same identity.
pub(crate) fn unique_instance() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Returns the host name, for people, and a random part, since one host runs many processes and
/// host names repeat.
pub(crate) fn unique_identity() -> String {
    let host = hostname::get().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let unique = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    if host.is_empty() { unique.to_string() } else { format!("{host}_{unique}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_identities_differ_and_end_in_a_uuid() {
        let [one, other] = [unique_identity(), unique_identity()];
        assert_ne!(one, other);
        let uuid = one.rsplit('_').next().expect("a last part");
        assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4), "{one}");
    }
}
