"""What the figures say: a table for each shape, and where each mode pays."""

_PAYS = 1.05  # times one rank's speed, below which nobody would take a second rank for it


def table(records):
    """Markdown."""
    lines = [
        "Tokens a second of a prompt alone, two ranks; in brackets how often one rank's speed, and the share of what was",
        "possible: the longer of the ranks' computation (their time without a link) and the bytes' time on the wire.",
        "",
    ]
    for shape in _unique(record["shape"] for record in records):
        here = [record for record in records if record["shape"] == shape]
        links = _unique(record["link_gbit"] for record in here if record["link_gbit"] is not None)
        lines += _shape_table(shape, here, links)
        lines += _where_it_pays(here, links)
    return "\n".join(lines) + "\n"


def possible_seconds(record, records):
    """A token's least time in this mode over this link, from what the same mode takes through memory; None without it."""
    for other in records:
        if other["link_gbit"] is None and (other["shape"], other["mode"]) == (record["shape"], record["mode"]):
            wire = record["sent_bytes_per_token"] * 8 / (record["link_gbit"] * 1e9)
            return max(1 / other["tokens_per_s"], wire)
    return None


def _shape_table(shape, records, links):
    columns = [None, *links]
    titles = ["memory", *(f"{link:g} Gbit/s" for link in links)]
    lines = [f"### {shape}", "", f"| | bytes a token | {' | '.join(titles)} |", "|---" * (len(columns) + 2) + "|"]
    alone = [record for record in records if record["mode"] == "one rank"]
    for prompt in _unique(record["prompt"] for record in alone):
        rates = sorted(record["tokens_per_s"] for record in alone if record["prompt"] == prompt)
        spread = f"{rates[0]:.0f}" if len(rates) == 1 else f"{rates[0]:.0f}-{rates[-1]:.0f}"
        lines.append(f"| one rank, {prompt} tokens: {spread} |" + " |" * (len(columns) + 1))
    for mode in _unique(record["mode"] for record in records if record["mode"] != "one rank"):
        of_mode = {record["link_gbit"]: record for record in records if record["mode"] == mode}
        first = next(iter(of_mode.values()))
        cells = [_cell(of_mode[link], records) if link in of_mode else "" for link in columns]
        lines.append(f"| {mode}, {first['prompt']} tokens | {first['sent_bytes_per_token']:.0f} | {' | '.join(cells)} |")
    return [*lines, ""]


def _cell(record, records):
    text = f"{record['tokens_per_s']:.0f} ({record['times_one_rank']:.2f}x"
    if record["link_gbit"] is not None:
        seconds = possible_seconds(record, records)
        if seconds is not None:
            text += f", {seconds * record['tokens_per_s']:.0%}"
    return text + ")"


def _where_it_pays(records, links):
    lines = []
    for link in links:
        here = [r for r in records if r["link_gbit"] == link and "times_one_rank" in r]
        paying = sorted((r for r in here if r["times_one_rank"] >= _PAYS), key=lambda r: -r["times_one_rank"])
        names = ", ".join(f"{r['mode']} ({r['times_one_rank']:.2f})" for r in paying) or "nothing"
        lines.append(f"- What pays at {link:g} Gbit/s: {names}.{_small_wire(here, records)}")
    return [*lines, ""]


def _small_wire(here, records):
    """What fewer bytes and overlap gain together over bf16 with neither, beside the share that bf16's bytes could take."""
    by_mode = {record["mode"]: record for record in here}
    computed = [r for r in records if r["link_gbit"] is None and r["mode"] == "bf16"]
    if not {"bf16", "int8, overlap"} <= by_mode.keys() or not computed:
        return ""
    plain = by_mode["bf16"]
    wire_s = plain["sent_bytes_per_token"] * 8 / (plain["link_gbit"] * 1e9)
    share = wire_s / (wire_s + 1 / computed[0]["tokens_per_s"])
    gain = by_mode["int8, overlap"]["tokens_per_s"] / plain["tokens_per_s"]
    return f" bf16's bytes are {share:.0%} of computation and wire; int8 with overlap is {gain:.2f} times bf16 without."


def _unique(values):
    return list(dict.fromkeys(values))
