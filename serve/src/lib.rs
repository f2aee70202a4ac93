//! lanekeeper-serve
