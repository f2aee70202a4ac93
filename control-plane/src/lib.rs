//! lanekeeper-control-plane
