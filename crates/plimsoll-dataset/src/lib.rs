//! plimsoll-dataset
