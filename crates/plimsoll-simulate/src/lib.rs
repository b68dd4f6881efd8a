//! plimsoll-simulate
