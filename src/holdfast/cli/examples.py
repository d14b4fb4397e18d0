"""What each command's help shows it being used for; every option in it is one that the command has."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("holdfast demo", "holdfast demo --n 1e5 --max 20 --out runs/few"),
    "certify": (
        "holdfast certify --model fashion-mnist --data fashion-mnist --sigma 0.25 --max 20 --out runs/a",
        "holdfast certify --model net.safetensors --data DIR --sigma 0.25 --n 1e5 --out runs/b",
        "holdfast certify --model net.safetensors --data DIR --noise uniform:0.5 --claims score --out runs/c",
    ),
    "decide": (
        "holdfast decide --model fashion-mnist --data fashion-mnist --sigma 0.25 --at-least 0.9 --radius 0.25 --max 20",
    ),
    "recheck": (
        "holdfast recheck runs/a --model pruned.safetensors --data DIR",
        "holdfast recheck runs/a --model pruned.safetensors --data DIR --require 0.95 --ledger ledger.jsonl",
    ),
    "report": (
        "holdfast report runs/a",
        "holdfast report runs/a runs/b --threshold 0.5,0.7 --radii 0,0.25,0.5",
        "holdfast report runs/a --format json --out a.json",
    ),
    "audit": ("holdfast audit runs/a --model net.safetensors --data DIR --radii 0.25,0.5 --max 100",),
    "import": ("holdfast import margin_sigma0.25.tsv --out runs/p",),
    "export": ("holdfast export runs/a --measure score --out a.tsv",),
    "compact": ("holdfast compact runs/a --out runs/a-small",),
    "verify": (
        "holdfast verify runs/a",
        "holdfast verify runs/a --model net.safetensors --data DIR --resample 20",
        "holdfast verify runs/a --key public.pem",
    ),
    "triage": (
        "holdfast triage --epsilon 0.05",
        "holdfast triage runs/val --radius 0.1 --epsilon 0.05 --out triage.json",
    ),
    "drift": ("holdfast drift triage.json runs/today",),
    "train": (
        "holdfast train --data DIR --sigma 0.25 --out net.safetensors",
        "holdfast train --data DIR --arch resnet20 --sigma 0.25 --objective consistency --epochs 60 --out net.safetensors",
    ),
    "serve": ("holdfast serve", "holdfast serve --model net.safetensors --data DIR --triage triage.json"),
    "doctor": ("holdfast doctor",),
}
