//! lanekeeper-dashboard-api
