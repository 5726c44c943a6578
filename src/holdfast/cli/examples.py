"""Examples and exit codes at the end of the help of each command."""

from __future__ import annotations

EXAMPLES = {
    "ingest": ("ingest ./contracts", "ingest ./contracts https://example.org/terms.html -c legal"),
    "watch": ("watch ./contracts", "watch ./contracts --every 1m"),
    "search": ("search notice period", "search notice period --type pdf --limit 3"),
    "serve": ("serve", "serve --host 0.0.0.0 --port 8000"),
    "collection create": ("collection create legal --size 1500",),
    "collection configure": ("collection configure legal --split markdown",),
    "collection list": ("collection list",),
    "collection show": ("collection show legal",),
    "collection delete": ("collection delete legal",),
    "collection forget": ("collection forget legal ./contracts",),
    "collection tidy": ("collection tidy",),
    "collection rebuild": ("collection rebuild",),
    "run": ("run papers.py ./pdfs", "run papers.py", "cat keys.txt | holdfast run papers.py - --batch march"),
    "submit": ("submit papers.py ./pdfs --batch march",),
    "work": ("work papers.py", "work papers.py --drain --processes 4", "work papers.py --key a.pdf"),
    "files load": (
        "files load 'logs/*.csv.gz' --into sqlite:///events.db --table event",
        "files load own.py ./in --into postgresql://me@host/db --table event",
    ),
    "files status": ("files status --store sqlite:///events.db",),
    "files failed": ("files failed --store sqlite:///events.db --export bad.jsonl",),
    "files retry": ("files retry --into sqlite:///e.db --table event --mended bad.jsonl",),
    "plan": ("plan papers.py", "plan ./contracts --price 0.02"),
    "status": ("status", "status papers --batch march"),
    "show": ("show pdfs/a.pdf", "show pdfs/a.pdf --items"),
    "explain": ("explain pdfs/a.pdf", "explain --batch march"),
    "dead list": ("dead list", "dead list --error ValueError"),
    "dead show": ("dead show pdfs/a.pdf",),
    "dead redrive": (
        'dead redrive pdfs/a.pdf --reason "the file was repaired"',
        'dead redrive --step read --rate 50/s --reason "the service is back"',
    ),
    "dead accept": ('dead accept pdfs/a.pdf --reason "cannot be read"',),
    "review list": ("review list", "review list --step approval"),
    "review approve": ('review approve pdfs/a.pdf --reason "looks good"',),
    "review reject": ('review reject pdfs/a.pdf --reason "not ours"',),
    "review answer": ('review answer pdfs/a.pdf \'{"price": 12}\' --reason "asked ann"',),
    "doc cancel": (
        'doc cancel pdfs/a.pdf --reason "withdrawn"',
        'doc cancel --batch march --reason "withdrawn" --dry-run',
    ),
    "doc pause": ('doc pause --batch march --for 2h --reason "the printer moves"',),
    "doc resume": ('doc resume --all --reason "the printer stands"',),
    "doc priority": ('doc priority 5 pdfs/a.pdf --reason "the customer waits"',),
    "doc rewind": ('doc rewind pdfs/a.pdf --to read --reason "a new scan"', "doc rewind --stale papers.py"),
    "doc items list": ("doc items list", "doc items list pdfs/a.pdf"),
    "doc items redrive": ('doc items redrive pdfs/a.pdf --reason "the scanner is back"',),
    "doc orphans": ("doc orphans", 'doc orphans papers --strategy requeue --reason "a dead host"'),
    "doc pack": ("doc pack pdfs/a.pdf",),
    "doc load": ("doc load a.pdf.capsule.json --store sqlite:///capsule.db",),
    "batch seal": ("batch seal papers march", "batch seal papers march --expect 1200 --deadline 2h"),
    "batch reconcile": ("batch reconcile papers", "batch reconcile papers march --report march.html"),
    "batch close": ("batch close papers.py march", 'batch close papers.py march --seal --reason "all is in"'),
    "batch cleanup": ("batch cleanup --dry-run", "batch cleanup papers march"),
    "pipeline check": ("pipeline check papers.py",),
    "pipeline verify": ("pipeline verify papers.py", "pipeline verify papers.py --sample 5%"),
    "pipeline debug": ("pipeline debug papers.py pdfs/a.pdf --pdb",),
    "pipeline crashtest": ("pipeline crashtest papers.py ./samples",),
    "pipeline circuit list": ("pipeline circuit list",),
    "pipeline circuit close": ('pipeline circuit close papers embed --reason "the key is right"',),
    "store migrate": ("store migrate",),
    "store metrics": ("store metrics", "store metrics --once"),
    "help": ("help batch close", "help exit-codes"),
}
"""Examples of each command, without the name of the program."""

_DEAD = {1: "there are dead letters"}
_AWAY = {4: "a step is paused because its service is away; run it again later"}

RESULTS: dict[str, dict[int, str]] = {
    "ingest": {**_DEAD, 4: "a source cannot be reached, or a service is away; run it again later"},
    "watch": _DEAD | _AWAY,
    "run": _DEAD | _AWAY,
    "work": {
        1: "there are dead letters (--drain), or the document is one (--key)",
        **_AWAY,
        6: "the document is held by another worker, or waits (--key)",
    },
    "plan": {4: "the source cannot be reached"},
    "doc cancel": {1: "rows of effects could not be removed (--undo)"},
    "batch seal": {1: "the batch has another number of documents (--expect)"},
    "batch reconcile": {1: "documents are missing"},
    "batch close": {1: "the batch cannot be closed yet, or its closing steps are not done"},
    "pipeline check": {1: "the pipeline does not fit its store"},
    "pipeline verify": {1: "results are gone, or could not be checked"},
    "pipeline debug": {1: "the document failed"},
    "pipeline crashtest": {1: "a kill changed the result"},
    "pipeline circuit close": {1: "the step is not paused"},
}
"""What exit codes mean for a command. 0, 2, 3 and 5, and those of signals, mean the same for all."""


def help_epilog(command: str) -> str:
    """Return the end of the help of a command: examples, and its exit codes. Empty for a group."""
    examples = [one if " | " in one else f"holdfast {one}" for one in EXAMPLES.get(command, ())]
    codes = [f"{code}  {meaning}" for code, meaning in RESULTS.get(command, {}).items()]
    return "\n\n".join(filter(None, (_block("Example", examples), _block("Exit code", codes))))


def _block(title: str, lines: list[str]) -> str:
    """Return lines under a title. click keeps a paragraph after \\b as it is."""
    plural = "s" if len(lines) > 1 else ""
    return "\n  ".join([f"\b\n{title}{plural}:", *lines]) if lines else ""
