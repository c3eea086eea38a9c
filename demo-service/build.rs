//! Rebuilds the service when a migration is added: `sqlx::migrate!` embeds the folder, but cargo only watches sources.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
