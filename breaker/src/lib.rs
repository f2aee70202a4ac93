//! lanekeeper-breaker
