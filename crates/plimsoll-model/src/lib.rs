//! plimsoll-model
