//! What a load needs in the database: its tables, and the roles that its statements take, which a
//! copy of the source may lack.

use super::step::Template;
use pgdyno_engine::contract::record::WarningKind;
use pgdyno_engine::dataset::sql::quote_literal;
use pgdyno_engine::outcome::Remark;
use pgdyno_engine::program::{Session, Unready};

/// The forms in which a capture takes a role: the text before the role, and after it.
const FORMS: [(&str, &str); 3] = [
    ("SET LOCAL ROLE \"", "\""),
    ("SET LOCAL SESSION AUTHORIZATION \"", "\""),
    ("SELECT set_config('role', '", "', true)"),
];

/// Return the role that a statement takes.
pub(super) fn role_of(text: &str) -> Option<&str> {
    FORMS.iter().find_map(|(before, after)| text.strip_prefix(before)?.strip_suffix(after))
}

/// Ask which roles of the load this user cannot take, and warn of each.
pub(super) async fn missing_roles(
    templates: &[Template],
    session: Session<'_>,
) -> Result<Vec<String>, Unready> {
    let steps = templates.iter().flat_map(|template| &template.steps);
    let mut roles: Vec<_> = steps.filter_map(|step| step.role.as_deref()).collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        return Ok(Vec::new());
    }
    let list: Vec<_> = roles.into_iter().map(quote_literal).collect();
    let sql = format!(
        "SELECT name FROM unnest(ARRAY[{}]::text[]) AS name WHERE NOT EXISTS (SELECT FROM \
         pg_catalog.pg_roles WHERE rolname = name AND pg_catalog.pg_has_role(oid, 'MEMBER'))",
        list.join(", ")
    );
    let missing = query_names(session, &sql).await?;
    for role in &missing {
        session.warn(Remark {
            kind: WarningKind::StatementRefused,
            message: format!("the load takes role {role}, which this user cannot take here"),
            hint: "its statements run as the user of the connection; to have them run as in \
                   the source, create the role and grant it"
                .to_owned(),
        });
    }
    Ok(missing)
}

/// Check that the database has these tables of the capture.
pub(super) async fn refuse_missing_tables(
    tables: &[String],
    session: Session<'_>,
) -> Result<(), Unready> {
    let names: Vec<_> = tables.iter().map(|name| quote_literal(name)).collect();
    let sql = format!(
        "SELECT name FROM unnest(ARRAY[{}]::text[]) AS name \
             WHERE pg_catalog.to_regclass(name) IS NULL",
        names.join(", ")
    );
    let missing = query_names(session, &sql).await?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unready::Refused {
        message: format!(
            "the database lacks {} of the {} tables of the capture: {}",
            missing.len(),
            tables.len(),
            missing.join(", ")
        ),
        hint: "name a database that was made from the capture (pgdyno init FILE), or a copy of \
               the source"
            .to_owned(),
    })
}

/// Return the names that a query returns.
async fn query_names(session: Session<'_>, sql: &str) -> Result<Vec<String>, Unready> {
    let names = session
        .ask(sql, |rows| {
            let mut names = Vec::new();
            while let Some((name,)) = rows.next_row::<(String,)>()? {
                names.push(name);
            }
            Ok(names)
        })
        .await?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_a_statement_is_read_from_its_text() {
        assert_eq!(role_of("SET LOCAL ROLE \"app user\""), Some("app user"));
        assert_eq!(role_of("SET LOCAL SESSION AUTHORIZATION \"app\""), Some("app"));
        assert_eq!(role_of("SELECT set_config('role', 'app', true)"), Some("app"));
        assert_eq!(role_of("SET LOCAL ROLE NONE"), None);
        assert_eq!(role_of("SELECT set_config('timezone', 'UTC', true)"), None);
    }
}
