//! lanekeeper-proto
