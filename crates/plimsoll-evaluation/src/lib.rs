//! plimsoll-evaluation
