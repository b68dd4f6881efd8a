//! plimsoll-features
