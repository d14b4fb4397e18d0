"""Every bound that claims to be a certificate: a new one joins this list and runs every law and every guarantee."""

import holdfast as hf

METHODS: dict[str, hf.Method] = {
    "cdf-berk-jones": hf.CDF(band=hf.BerkJones()),
    "cdf-berk-jones-20": hf.CDF(band=hf.BerkJones(), thresholds=20),
    "cdf-dkw": hf.CDF(band=hf.DKW()),
    "cdf-dkw-20": hf.CDF(band=hf.DKW(), thresholds=20),
    "best-of": hf.BestOf((hf.CDF(band=hf.BerkJones()), hf.Naive(mean=hf.Betting()))),
    "naive-bernstein": hf.Naive(mean=hf.EmpiricalBernstein()),
    "naive-betting": hf.Naive(mean=hf.Betting()),
    "naive-hoeffding": hf.Naive(mean=hf.Hoeffding()),
}
ORDERED: dict[str, hf.Method] = {
    "naive-star": hf.Naive(mean=hf.Star()),
    "tangents": hf.Tangents(),
    "tangent-1.0": hf.Tangent(radius=1.0),
}
"""Methods that need samples in the order of their arrival."""

EXACT_CDF = hf.CDF(band=hf.Empirical())
EXACT_NAIVE = hf.Naive(mean=hf.EmpiricalMean())
BANDS: dict[str, hf.Band] = {"berk-jones": hf.BerkJones(), "dkw": hf.DKW()}
