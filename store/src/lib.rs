//! lanekeeper-store
