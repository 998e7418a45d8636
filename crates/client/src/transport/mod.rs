//! Connections: from a host name to a pool that speaks HTTP/2 or HTTP/1.1.
