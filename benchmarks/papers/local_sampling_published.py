"""What Barcenas et al. printed in its Tables 2-7, 10 and 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """A kernel's column of the paper's tables."""

    words: dict[str, Any]
    full: tuple[int, float, float]  # support vectors, error, seconds
    local: tuple[float, int, int, float, float, float]  # beta, initial, final, share found, error ratio, share of time
    cglq: tuple[int, int, float, float, float]  # initial, final, share found, error ratio, share of time


@dataclass(frozen=True)
class Problem:
    """A data set and what the paper did with it."""

    name: str
    scale: bool  # whether the SVM scales its training rows
    n_subsamples: int
    size: int
    cglq_delta: float
    columns: dict[str, Published]


def _words(C: float, gamma: float | None = None, degree: int = 3) -> dict[str, Any]:
    return {"C": C} if gamma is None else {"C": C, "gamma": gamma, "degree": degree, "coef0": 0.0}


PROBLEMS = {
    "cod_rna": Problem(
        "cod_rna", True, 12, 50, 0.01,
        {
            "linear": Published(_words(0.1), (22923, 0.206, 178.013), (0.1, 395, 1296, 4.91, 1.02, 0.62),
                                (272, 3417, 14.53, 1.004, 2.85)),
            "poly": Published(_words(1.0, 0.1), (15397, 0.208, 114.115), (0.1, 442, 1293, 4.91, 0.92, 1.2),
                              (320, 2945, 14.3, 0.92, 4.29)),
            "rbf": Published(_words(10.0, 0.1), (8768, 0.242, 117.901), (0.1, 362, 585, 3.85, 1.01, 0.73),
                             (193, 1695, 13.51, 1.01, 4.26)),
        },
    ),
    "ijcnn1": Problem(
        "ijcnn1", False, 20, 50, 0.02,
        {
            "linear": Published(_words(5.0), (8577, 0.078, 63.99), (0.2, 347, 834, 8.29, 0.89, 3.09),
                                (180, 673, 7.07, 0.87, 3.68)),
            "poly": Published(_words(0.1, 0.5), (9377, 0.071, 62.5), (0.2, 503, 407, 3.38, 0.85, 3.48),
                              (263, 295, 2.5, 1.08, 1.23)),
            "rbf": Published(_words(10.0, 0.1), (5731, 0.028, 63.45), (0.2, 395, 1055, 10.64, 1.02, 9.82),
                             (197, 394, 4.09, 1.29, 4.78)),
        },
    ),
    "covtype": Problem(
        "covtype", False, 50, 250, 0.05,
        {
            "linear": Published(_words(10.0), (303036, 0.237, 36688.26), (0.5, 7779, 139747, 44.91, 1.009, 17.8),
                                (15226, 76972, 25.18, 0.99, 31.14)),
            "poly": Published(_words(1.0, 1.0, 2), (216841, 0.169, 39896.5), (0.5, 7208, 96003, 40.53, 1.05, 19.87),
                              (11974, 55204, 18.58, 1.02, 33.44)),
            "rbf": Published(_words(10.0, 5.0), (144271, 0.09, 28746.54), (0.5, 10785, 72188, 43.73, 1.22, 27.59),
                             (10603, 37049, 14.66, 1.22, 30.91)),
        },
    ),
}  # fmt: skip

# eps -> average over the sizes (they hardly differ), and the sizes themselves (Tables 10 and 11)
INDECISION = {
    "cod_rna": {0.1: (0.07758, 0.07726, 0.07773, 0.07754, 0.07759), 0.01: (0.00722, 0.00722, 0.00726, 0.00724, 0.00733),
                0.001: (0.00082, 0.00077, 0.00078, 0.00078, 0.00079)},
    "ijcnn1": {0.1: (0.15623, 0.15611, 0.15675, 0.15673, 0.15655), 0.01: (0.01147, 0.01141, 0.01148, 0.01144, 0.01141),
               0.001: (0.00086, 0.00082, 0.00085, 0.00086, 0.00085)},
}  # fmt: skip
INDECISION_SIZES = (5000, 10000, 20000, 30000, 40000)
