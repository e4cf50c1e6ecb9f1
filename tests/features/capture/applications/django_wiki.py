"""The wiki of the package `wiki` on Django: its tables, and clients that read and write pages.

    python django_wiki.py prepare CONNINFO
    python django_wiki.py load CONNINFO CLIENTS

The load goes on until the standard input ends. Nothing of the application was written here: this
is its settings, and people who use it.
"""

from __future__ import annotations

import random
import re
import sys
import threading
import time

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

PEOPLE, PAGES, PASSWORD = 12, 40, "only for tests"
WORDS = [
    "river",
    "stone",
    "winter",
    "market",
    "garden",
    "letter",
    "window",
    "silver",
    "harbour",
    "engine",
]


def configure(conninfo: str) -> None:
    """Set Django up as the documents of the wiki say."""
    place = conninfo_to_dict(conninfo)
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="not a secret",
        USE_TZ=True,
        SITE_ID=1,
        ROOT_URLCONF="django_wiki",
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        LOGIN_REDIRECT_URL="/",
        WIKI_ACCOUNT_HANDLING=True,
        WIKI_ANONYMOUS=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": place["dbname"],
                "HOST": place["host"],
                "PORT": place["port"],
                "USER": place["user"],
                "CONN_MAX_AGE": None,
            }
        },
        INSTALLED_APPS=[
            "django.contrib.humanize",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.sites",
            "django.contrib.messages",
            "django.contrib.admin",
            "django_nyt.apps.DjangoNytConfig",
            "mptt",
            "sekizai",
            "sorl.thumbnail",
            "wiki.apps.WikiConfig",
            "wiki.plugins.attachments.apps.AttachmentsConfig",
            "wiki.plugins.notifications.apps.NotificationsConfig",
            "wiki.plugins.images.apps.ImagesConfig",
            "wiki.plugins.macros.apps.MacrosConfig",
            "wiki.plugins.globalhistory.apps.GlobalHistoryConfig",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        STATIC_URL="/static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.contrib.auth.context_processors.auth",
                        "django.template.context_processors.debug",
                        "django.template.context_processors.i18n",
                        "django.template.context_processors.request",
                        "django.template.context_processors.tz",
                        "django.contrib.messages.context_processors.messages",
                        "sekizai.context_processors.sekizai",
                    ]
                },
            }
        ],
    )
    django.setup()


def text_of(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def prepare() -> None:
    """Make the tables, people and some pages."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from wiki.models import URLPath

    call_command("migrate", verbosity=0)
    rng = random.Random(1)
    for number in range(PEOPLE):
        User.objects.create_superuser(f"person{number}", f"p{number}@example.org", PASSWORD)
    URLPath.create_root(title="Start", content=text_of(rng, 30))
    root = URLPath.root()
    for number in range(PAGES):
        content = text_of(rng, rng.randrange(20, 200))
        URLPath.create_urlpath(root, f"page{number}", title=text_of(rng, 2), content=content)


class Person:
    """Somebody with a browser: reads mostly, writes sometimes, deletes what is too much."""

    def __init__(self, number: int) -> None:
        from django.test import Client

        self.rng = random.Random(number)
        self.name = f"person{number % PEOPLE}"
        self.browser = Client()
        self.mine: list[str] = []
        self.made_count = 0
        self.number = number
        self.run = format(time.time_ns(), "x")[-8:]

    def log_in(self) -> None:
        form = {"username": self.name, "password": PASSWORD}
        said = self.browser.post("/_accounts/login/", form)
        assert said.status_code == 302, said.content[:2000]

    def log_out(self) -> None:
        self.browser.get("/_accounts/logout/")
        self.log_in()

    def a_page(self) -> str:
        return f"/page{self.rng.randrange(PAGES)}/"

    def read(self) -> None:
        self.get(self.a_page())

    def list_pages(self) -> None:
        self.get("/_dir/")

    def search(self) -> None:
        self.get("/_search/", {"q": self.rng.choice(WORDS)})

    def history(self) -> None:
        self.get(f"{self.a_page()}_history/")

    def create(self) -> None:
        self.made_count += 1
        slug = f"n{self.number}-{self.run}-{self.made_count}"
        title, content = text_of(self.rng, 3), text_of(self.rng, 50)
        form = {"title": title, "slug": slug, "content": content, "summary": "new"}
        said = self.browser.post("/_create/", form)
        assert said.status_code == 302, said.content[-3000:]
        self.mine.append(f"/{slug}/")

    def edit(self) -> None:
        page = self.rng.choice(self.mine) if self.mine else self.a_page()
        shown = self.get(f"{page}_edit/")
        [revision] = re.findall(r'name="current_revision" value="(\d+)"', shown)
        form = {"title": text_of(self.rng, 2), "content": text_of(self.rng, 60)}
        form |= {"summary": "changed", "current_revision": revision, "save": "1"}
        said = self.browser.post(f"{page}_edit/", form)
        assert said.status_code in (200, 302), said.content[-3000:]

    def delete(self) -> None:
        if not self.mine:
            return
        page = self.mine.pop(0)
        shown = self.get(f"{page}_delete/")
        [revision] = re.findall(r'name="revision" value="(\d+)"', shown)
        form = {"confirm": "on", "purge": "on", "revision": revision}
        said = self.browser.post(f"{page}_delete/", form)
        assert said.status_code == 302, said.content[-3000:]

    def administer(self) -> None:
        """Look through the lists of Django's admin, make a group, rename it, delete it."""
        self.get("/admin/auth/user/", {"q": "person1"})
        self.get("/admin/wiki/article/")
        name = f"group {self.number} {self.run} {self.rng.random()}"
        said = self.browser.post("/admin/auth/group/add/", {"name": name, "_continue": "1"})
        assert said.status_code == 302, said.content[-3000:]
        place = said["Location"]
        permissions = [str(n) for n in self.rng.sample(range(1, 30), 3)]
        form = {"name": f"{name} b", "permissions": permissions, "_continue": "1"}
        assert self.browser.post(place, form).status_code == 302
        gone = self.browser.post(place.replace("/change/", "/delete/"), {"post": "yes"})
        assert gone.status_code == 302, gone.content[-3000:]

    def get(self, path: str, query: dict[str, str] | None = None) -> str:
        said = self.browser.get(path, query or {})
        assert said.status_code == 200, (path, said.status_code, said.content[:2000])
        return said.content.decode()

    def use_until(self, over: threading.Event) -> None:
        self.log_in()
        actions = [self.read] * 12 + [self.list_pages, self.search, self.history] * 2
        actions += [self.create] * 3 + [self.edit] * 3 + [self.delete] * 2
        actions += [self.administer, self.log_out]
        while not over.is_set():
            self.rng.choice(actions)()


def load(clients: int) -> None:
    """Use the wiki with several people at the same time."""
    from django.db import connection

    over, failed = threading.Event(), []

    def use(number: int) -> None:
        try:
            Person(number).use_until(over)
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            connection.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"{len(failed)} people could not go on: {failed[0]!r}")


def __getattr__(name: str) -> object:
    """Return the places of the application; they can be read when Django is set up."""
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.contrib import admin
    from django.urls import include, path

    return [
        path("admin/", admin.site.urls),
        path("notifications/", include("django_nyt.urls")),
        path("", include("wiki.urls")),
    ]


if __name__ == "__main__":
    sys.modules["django_wiki"] = sys.modules["__main__"]
    configure(sys.argv[2])
    if sys.argv[1] == "prepare":
        prepare()
    else:
        load(int(sys.argv[3]))
