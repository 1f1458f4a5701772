"""An audit as text: for the terminal, for an issue (Markdown), for a paper (LaTeX)."""

from trio_profile.audit.document import AuditDocument
from trio_profile.audit.finding import Finding
from trio_profile.findings.audit import by_verdict, recomputed, summary, why, words

_COLUMNS = ("where", "quantity", "printed", "recomputed", "verdict", "convention", "why")
_LATEX = {
    **{char: rf"\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "γ": r"$\gamma$",
    "Σ": r"$\Sigma$",
    "τ": r"$\tau$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "⁶": r"\textsuperscript{6}",
    "≥": r"$\geq$",
}


def show(document: AuditDocument) -> None:
    """Every finding in the terminal, what contradicts itself first."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    console = Console(highlight=False)
    console.print(f"[bold]{escape(document.paper)}[/bold]")
    if document.source:
        console.print(escape(document.source))
    for verdict in document.tally:
        console.print(f"\n[bold]{words(verdict)}[/bold]")
        for finding in (one for one in document.claims if one.verdict == verdict):
            head = f"{finding.quantity} {finding.printed}"
            again = recomputed(finding)
            console.print(
                f"  {escape(head)}{' → ' + escape(again) if again else ''}  [dim]{escape(finding.where)}[/dim]"
            )
            console.print(Padding(escape(why(finding, document)), (0, 0, 0, 6)))
    console.print("", escape(summary(document)), sep="\n")
    if document.report:
        console.print(f"report: {escape(document.report)}", soft_wrap=True)


def markdown(document: AuditDocument) -> str:
    """A sentence and a table, for an issue or a review."""
    lines = [f"**{_markdown(document.paper)}**", "", _markdown(summary(document)), ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    for finding in by_verdict(document.claims):
        lines.append(f"| {' | '.join(_markdown(text) for text in row(finding, document))} |")
    return "\n".join(lines)


def latex(document: AuditDocument) -> str:
    """A table for a paper; needs booktabs and longtable."""
    columns = ("where", "quantity", "printed", "recomputed", "verdict", "why")
    keep = [_COLUMNS.index(name) for name in columns]
    head = " & ".join(columns)
    lines = [
        rf"% {document.name}: written by trio-profile audit; \usepackage{{booktabs, longtable}}".replace("\n", " "),
        r"\begin{longtable}{p{2.5cm}p{2cm}p{1.5cm}p{2.5cm}p{2cm}p{5cm}}",
        rf"\toprule {head} \\ \midrule \endhead",
    ]
    for finding in by_verdict(document.claims):
        cells = row(finding, document)
        lines.append(rf"{' & '.join(_tex(cells[i]) for i in keep)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}"])


def row(finding: Finding, document: AuditDocument) -> tuple[str, ...]:
    """A finding's fields as text, in the order of the columns."""
    return (
        finding.where,
        finding.quantity,
        finding.printed,
        recomputed(finding),
        words(finding.verdict),
        finding.convention or "",
        why(finding, document),
    )


def _markdown(text: str) -> str:
    """Text that stays text: no cell ends in it, and no markup begins."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in "\\|`*_[]!#~" else char for char in plain)


def _tex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)
