//! The attributes of a request that error messages of impersonation name.

/// The attributes of a request that error messages of impersonation name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The path of the request, without the query.
    pub path: &'a str,
    /// True if the query asks for a watch.
    pub watches: bool,
}
