//! What a request is about to do, as far as refusals name it.

/// What a request means to do: those who may not are told.
#[derive(Clone, Copy, Debug)]
pub struct Deed<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// Its path, without the query.
    pub path: &'a str,
    /// Whether its query asks for a watch.
    pub watches: bool,
}
