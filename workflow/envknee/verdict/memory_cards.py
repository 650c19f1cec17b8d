"""Numbers of environments that fit cards of other sizes. Pure."""

from collections.abc import Sequence

from envknee.study.model import Decide
from envknee.verdict.memory_fit import Fit
from envknee.verdict.memory_model import largest_fitting
from envknee.verdict.memory_sample import Sample, all_series
from envknee.verdict.schema.memory import CardPrediction

CARDS_MIB = {
    "8 GB (RTX 4060)": 8188,
    "12 GB (RTX 4070)": 12282,
    "16 GB (RTX 4080)": 16376,
    "24 GB (RTX 4090)": 24564,
    "32 GB (RTX 5090)": 32607,
    "40 GB (A100)": 40960,
    "48 GB (L40S)": 46068,
    "80 GB (H100)": 81559,
    "96 GB (H100 NVL)": 95830,
    "141 GB (H200)": 143771,
}
"""Total memory of cards, as nvidia-smi reports it, in MiB."""

GB_PER_MIB = 2**20 / 1e9


def on_cards(fit: Fit | None, samples: Sequence[Sample], settings: Decide) -> list[CardPrediction]:
    """Return the model's predictions for cards of other sizes. Memory use does not depend on the card's size."""
    if fit is None:
        return []
    predictions = []
    for card, mebibytes in CARDS_MIB.items():
        memory_gb = mebibytes * GB_PER_MIB
        for series in all_series(samples):
            largest, lower, upper = largest_fitting(fit, series, memory_gb, settings)
            if largest is not None:
                predictions.append(
                    CardPrediction(
                        card=card,
                        memory_gb=memory_gb,
                        horizon=series.horizon,
                        batch_size=series.batch_size,
                        largest_num_envs=largest,
                        largest_num_envs_lower=lower,
                        largest_num_envs_upper=upper,
                        extrapolation=largest / fit.largest_num_envs,
                    )
                )
    return predictions
