//! The tables, brought up to date at start. One set of files for both engines, compiled into the
//! program.

use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

macro_rules! migration {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../migrations/", $name, ".sql")),
        )
    };
}
/// In order. A file is never edited once released: its checksum is stored in every database.
const FILES: &[(&str, &str)] = &[
    migration!("0001_create_control_state"),
    migration!("0002_create_gateways"),
    migration!("0003_create_audit"),
    migration!("0004_create_tokens"),
    migration!("0005_create_agents"),
    migration!("0006_create_overrides"),
    migration!("0007_create_rollouts"),
    migration!("0008_create_enrolment"),
    migration!("0009_create_idempotency_keys"),
    migration!("0010_create_drains"),
    migration!("0011_add_agents_left"),
    migration!("0012_add_agents_identity"),
    migration!("0013_create_sign_ins"),
    migration!("0014_add_overrides_provider"),
    migration!("0017_create_transitions"),
    migration!("0018_create_incidents"),
];

/// The number a file's name begins with, which a test holds to.
fn number_of(name: &str) -> i64 {
    name.split('_')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

pub(crate) fn migrator() -> Migrator {
    let migrations = FILES
        .iter()
        .map(|(name, sql)| {
            Migration::new(
                number_of(name),
                Cow::Borrowed(*name),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        })
        .collect();
    let mut migrator = Migrator::with_migrations(migrations);
    // While replicas are being replaced, an old one may start on a database that a new one has
    // already brought further; migrations only ever add what the release before can ignore.
    migrator.set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests {
    use super::{FILES, number_of};

    #[test]
    fn every_file_of_the_folder_is_listed_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".sql").map(str::to_owned))
            .collect();
        found.sort();
        let listed: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, listed);
        let numbers: Vec<i64> = listed.iter().map(|name| number_of(name)).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!(numbers.first(), Some(&1));
    }
}
