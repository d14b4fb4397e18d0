"""Evidence as sampling leaves it, from histograms of the two default measures."""

import holdfast as hf
from holdfast.measures import DEFAULT_MEASURES


def evidence_of(n: int, votes: int, score: hf.ScoreHistogram, margin: hf.ScoreHistogram) -> hf.Evidence:
    infos = (measure.info for measure in DEFAULT_MEASURES)
    return hf.Evidence(n, votes, dict(zip(infos, (score, margin), strict=True)))
