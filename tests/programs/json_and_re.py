"""json and re: parses a file, searches, rewrites, prints a digest."""
import json
import re
import sys

items = json.load(open(sys.argv[1]))
pattern = re.compile(r"(?P<first>\w+?)(?:ti|lu)(\w*)\s+(?P<second>[a-m]\w+)")
found = [m.groupdict() for item in items if (m := pattern.search(item["name"]))]
names = re.sub(r"\b(\w)(\w*)\b", lambda m: m[2] + m[1], " ".join(item["name"] for item in items))
groups = {}
for item in items:
    groups.setdefault(item["name"][0], []).append(item)
summary = {k: {"n": len(v), "x": round(sum(i["x"] for i in v), 3), "most": max(sum(i["list"]) for i in v)}
           for k, v in sorted(groups.items())}
text = json.dumps(summary, indent=1, sort_keys=True)
assert json.loads(text) == summary
print(text)
print(len(found), len(names), found[:5])
