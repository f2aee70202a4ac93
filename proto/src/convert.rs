//! Wire to checked values and back. Inward conversions are `TryFrom` and name the field they refuse; outward ones are
//! `From` and cannot fail. A value that is out of bounds or unknown is refused, never clamped.

mod advisories;
mod agent;
mod bounds;
mod enrolment;
mod leases;
mod overrides;
mod pools;
mod report;
mod server;
mod transition;

#[cfg(test)]
mod tests;
