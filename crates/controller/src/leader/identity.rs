//! Names for this process that no other process has.

/// A random name that is new at each call: it tells an elector from another one that was given the same identity.
pub(crate) fn unique_instance() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// The name of the host, for people, and a random part, since one host runs many processes and host names repeat.
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
