//! plimsoll-export
