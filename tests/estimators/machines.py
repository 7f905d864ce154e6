"""The one place where estimators are added to the tests that every estimator must pass."""

from sklearn.metrics.pairwise import rbf_kernel

from kompakt import (
    CGLQSVC,
    FEESVC,
    FEESVR,
    AutoSize,
    CompactNovelty,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GreedyProjection,
    GrowthSelector,
    KernelFisher,
    LocalSamplingSVC,
    ProjectedKernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
)
from kompakt.kernels import RBF


class Gaussian:
    """A user's own kernel function, with a name that is the same in every test process."""

    def __call__(self, X, Z):
        return rbf_kernel(X, Z)

    def __repr__(self):
        return "Gaussian()"


#: go through scikit-learn's estimator checks (test_checks.py), with their defaults and in variants
MACHINES = [
    CompactSVC(),
    CompactSVR(),
    CompactSVC(selection="random", refine=False),
    CompactSVR(selection="random", refine=False),
    # every loss, kernel, coding and selection
    CompactSVC(n_basis=20, refine=False, loss="hinge", selection="random"),
    CompactSVC(n_basis=20, refine=False, loss="least_squares", kernel="laplacian"),
    CompactSVC(n_basis=20, refine=False, loss="huber", coding="one_vs_one"),
    CompactSVC(n_basis=20, refine=False, kernel="linear", coding="minimum_output", penalize_intercept=True),
    CompactSVC(n_basis=20, refine=False, kernel="poly", degree=2, coef0=1.0, class_weight="balanced"),
    CompactSVC(n_basis=20, refine=False, kernel=1 + RBF(0.3), fit_intercept=False),
    CompactSVC(n_basis=20, refine=False, kernel=Gaussian(), selection="all"),
    CompactSVC(n_basis=20, refine=False, loss="hinge", coding="one_vs_one", kernel="laplacian"),
    CompactSVR(n_basis=20, refine=False, loss="huber"),
    CompactSVR(n_basis=20, refine=False, loss="epsilon_insensitive", kernel="laplacian"),
    CompactSVR(n_basis=20, refine=False, loss="absolute", selection="random"),
    CompactSVR(n_basis=20, refine=False, loss="quantile", kernel="linear"),
    CompactSVC(n_basis=20, refine=False, loss="hinge", kernel="precomputed", coding="minimum_output"),
    CompactSVR(n_basis=20, refine=False, loss="quantile", quantile=0.8, kernel="precomputed"),
    CompactSVC(n_basis=10, refine=Refinement(5), loss="hinge", gamma="learn"),
    CompactSVC(n_basis=10, refine=Refinement(5), selection="renyi", loss="huber"),
    CompactSVR(n_basis=10, refine=Refinement(5), loss="epsilon_insensitive", selection="random"),
    CompactNovelty(),
    CompactNovelty(refine=False),
    CompactNovelty(n_basis=10, loss="hinge", kernel="laplacian", selection="random", refine=False),
    CompactNovelty(n_basis=10, selection="projection", refine=False),
    FixedSizeLSSVC(),
    FixedSizeLSSVR(),
    FixedSizeLSSVC(n_basis=10, tune=True, cv=3),
    FixedSizeLSSVR(n_basis=AutoSize(sizes=[4, 8]), tune=True, cv=3, cv_prototypes="anew"),
    SpSVC(n_basis=20),
    SpSVC(n_basis=8, selection="sp1", plus_one=True),
    GreedyProjection(),
    GreedyProjection(n_basis=8, pivot="random"),
    ProjectedSVC(),
    ProjectedSVC(n_basis=8, two_pass=True),
    KernelFisher(),
    ProjectedKernelFisher(n_basis=10),
    ProjectedKernelFisher(n_basis=8, tune=True, cv=3),
    LocalSamplingSVC(),
    LocalSamplingSVC(beta=0.5, n_basis=10),
    CGLQSVC(),
    FEESVC(),
    FEESVR(),
    # refinement, which every machine with chosen vectors and a primal objective offers
    SpSVC(n_basis=8, refine=Refinement(5)),
    FixedSizeLSSVC(n_basis=8, refine=Refinement(5), gamma="ard"),
    FixedSizeLSSVR(n_basis=8, C=1.0, gamma="scale", selection="renyi", refine=Refinement(5)),
    ProjectedSVC(n_basis=8, refine=Refinement(5)),
    FEESVC(n_basis=8, refine=Refinement(5), gamma="learn"),
]


def plain(machine):
    """The machine without refinement, of which less is promised."""
    return machine.set_params(refine=False) if "refine" in machine.get_params() else machine


#: keep the promises of DESIGN under "Exactness" (test_exactness.py); every one takes dense and CSR rows and weights
EXACT = {
    "CompactSVC random": plain(CompactSVC(n_basis=25, selection="random")),
    "CompactSVC random, wide": plain(CompactSVC(n_basis=25, selection="random", gamma=2.0, C=10.0)),
    "CompactSVC random, least squares": plain(CompactSVC(n_basis=25, selection="random", loss="least_squares")),
    "CompactSVC random, balanced": plain(CompactSVC(n_basis=25, selection="random", class_weight="balanced")),
    "CompactSVC random, laplacian": plain(CompactSVC(n_basis=25, selection="random", kernel="laplacian")),
    "CompactSVC default selection": plain(CompactSVC(n_basis=25)),
    "CompactSVR random": plain(CompactSVR(n_basis=25, selection="random", C=10.0)),
    "CompactSVR default selection": plain(CompactSVR(n_basis=25, C=10.0)),
    "CompactNovelty": plain(CompactNovelty(n_basis=25, nu=0.1)),
    "FixedSizeLSSVC": FixedSizeLSSVC(n_basis=25, C=10.0),
    "FixedSizeLSSVC one-vs-one": FixedSizeLSSVC(n_basis=25, coding="one_vs_one"),
    "FixedSizeLSSVR": FixedSizeLSSVR(n_basis=25, C=10.0),
    "SpSVC sp2": SpSVC(n_basis=25),
    "SpSVC sp1, always": SpSVC(n_basis=25, selection=GrowthSelector("sp1", 4, retraining="always")),
    "SpSVC bh, 1 + k": SpSVC(n_basis=25, selection="bh", plus_one=True),
    "ProjectedSVC": ProjectedSVC(n_basis=25),
    "ProjectedSVC drawn": ProjectedSVC(n_basis=25, pivot="random"),
    "KernelFisher": KernelFisher(reg=0.1),
    "ProjectedKernelFisher": ProjectedKernelFisher(n_basis=25, reg=0.1),
}
