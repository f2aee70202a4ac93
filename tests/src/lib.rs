//! lanekeeper-tests
