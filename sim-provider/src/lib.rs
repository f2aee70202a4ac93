//! lanekeeper-sim-provider
