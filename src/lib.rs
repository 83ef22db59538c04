//! How it is asked: the HTTP edge of oncegate.
#![forbid(unsafe_code)]
