//! lanekeeper-model
