"""pretix with one event, one ticket, and a quota of it. `--skip-locking` leaves out pretix's locks, by its own debug flag.

The database must be empty: pretix creates its tables there. Its other files go to `--data`. The variable PRETIX_TOKEN of the
environment is the token that buyers send.
"""

import os
import socket
import stat
import sys
import threading
from argparse import ArgumentParser
from datetime import timedelta
from urllib.parse import unquote, urlsplit

# Each has a connection to the database. pretix refuses a buyer that has waited three seconds for its lock, so there are few.
THREADS = 8
CONNECTIONS_MAX = 1024
TOKEN = "PRETIX_TOKEN"


def arguments():
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free one; the first line of output has its URL")
    parser.add_argument("--stock", type=int, default=100, help="units of each sale")
    parser.add_argument("--database", required=True, help="the URL of an empty Postgres database")
    parser.add_argument("--data", required=True, help="a folder for pretix's files")
    parser.add_argument("--skip-locking", action="store_true", help="oversell")
    return parser.parse_args()


class NoMigrations:
    """Lets Django create each table as the models have it. pretix's own tests do that, too: its 500 migrations take minutes."""

    def __contains__(self, app):
        return True

    def __getitem__(self, app):
        return None


def configure(args, url):
    """Sets the variables that pretix reads. It answers only requests to its own URL."""
    database = urlsplit(args.database)
    os.makedirs(args.data, exist_ok=True)
    os.environ.update(
        DJANGO_SETTINGS_MODULE="pretix.settings",
        PRETIX_CONFIG_FILE=os.devnull,
        PRETIX_PRETIX_URL=url,
        DATA_DIR=args.data,
        PRETIX_DATABASE_BACKEND="postgresql",
        PRETIX_DATABASE_NAME=unquote(database.path.lstrip("/")),
        PRETIX_DATABASE_USER=unquote(database.username or ""),
        PRETIX_DATABASE_PASSWORD=unquote(database.password or ""),
        PRETIX_DATABASE_HOST=database.hostname,
        PRETIX_DATABASE_PORT=str(database.port or 5432),
    )


def populate(stock):
    """Creates an event with one ticket, and the token of the buyers. In an empty database, the ticket gets the number 1."""
    from django.utils.timezone import now
    from django_scopes import scopes_disabled
    from pretix.base.models import Organizer, Team, TeamAPIToken

    with scopes_disabled():
        organizer = Organizer.objects.create(name="Shop", slug="shop")
        event = organizer.events.create(
            name="Sale",
            slug="sale",
            currency="EUR",
            date_from=now() + timedelta(days=30),
            live=True,
            plugins="pretix.plugins.manualpayment",
        )
        ticket = event.items.create(name="Ticket", default_price=10)
        quota = event.quotas.create(name="tickets", size=stock)
        quota.items.add(ticket)
        team = Team.objects.create(organizer=organizer, name="buyers", all_events=True, all_event_permissions=True)
        TeamAPIToken.objects.create(team=team, name="buyers", token=os.environ[TOKEN])


def end_with_input():
    """Ends this process when standard input ends: the program at the other end of the pipe is gone."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def main():
    args = arguments()
    if not os.environ.get(TOKEN):
        sys.exit(f"shop.py: the environment has no {TOKEN}; set it to any text of letters and digits")
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=end_with_input, daemon=True).start()
    # The socket comes first, because pretix has to know its port.
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", args.port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    configure(args, url)

    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.core.wsgi import get_wsgi_application
    from pretix.testutils.middleware import debugflags_var
    from waitress import create_server

    settings.MIGRATION_MODULES = NoMigrations()
    call_command("migrate", run_syncdb=True, verbosity=0)
    populate(args.stock)
    app = get_wsgi_application()

    def without_locks(environ, start_response):
        debugflags_var.set(frozenset(["skip-locking"]))
        return app(environ, start_response)

    server = create_server(
        without_locks if args.skip_locking else app,
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS_MAX,
        asyncore_use_poll=True,
    )
    print(url, flush=True)
    server.run()


main()
