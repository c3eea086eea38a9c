//! The question before requests leave this machine.

use std::io::{IsTerminal as _, stderr, stdin};

use program::{FromSystem as _, tell};
use tokio::sync::oneshot;

use crate::error::Error;

/// Returns if the addresses may be sent to: there are none, a flag says so, or the user at the terminal does.
pub(super) async fn confirm(strangers: &[String], is_confirmed: bool) -> Result<(), Error> {
    if strangers.is_empty() || is_confirmed {
        return Ok(());
    }
    let where_to = strangers.join(", ");
    let refusal = || {
        Error::Usage(format!(
            "the shop is not on this machine: {where_to}; nothing was sent. If the shop is yours, add --yes-this-is-my-shop"
        ))
    };
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(refusal());
    }
    tell(format_args!(
        "The shop is not on this machine: {where_to}. A load on the shop of somebody else may be an attack."
    ));
    tell("Is it your shop? Type yes to go on:");
    if line().await?.trim() == "yes" { Ok(()) } else { Err(refusal()) }
}

/// Reads a line of the terminal. A thread of its own waits for it, so that Ctrl-C ends the program meanwhile.
async fn line() -> Result<String, Error> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = stdin().read_line(&mut line).map(|_| line);
        // Nobody listens any more after Ctrl-C.
        let _ = sender.send(read);
    });
    let read = receiver.await.map_err(|_| Error::Generator("the terminal was not read".to_owned()))?;
    read.map_err(Error::system("read the terminal"))
}
