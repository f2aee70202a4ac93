//! lanekeeper-agent
