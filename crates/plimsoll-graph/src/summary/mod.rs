//! Printed layer summaries.
