# Reference values for tests/select/test_bandwidth.py.
#
#   Rscript tests/select/bw_sj_reference.R > tests/select/bw_sj_reference.json
#
# Samples are quantiles of known distributions at irregular probabilities, so that R and NumPy build the same numbers
# without sharing a random generator: u_i = frac(i * golden ratio), i = 1..n (a low-discrepancy sequence).
# "default" is bw.SJ as users call it; "tight" removes its two approximations (1000 bins, root tolerance 1 %).
# On the Cauchy sample the default bins are wider than the bandwidth, so only "tight" is meaningful there.

u <- function(n) (seq_len(n) * 0.6180339887498949) %% 1
halves <- function(n, below, above, share) {
  p <- u(n)
  ifelse(p < share, below(pmin(p / share, 1)), above(pmax((p - share) / (1 - share), 0)))
}
samples <- list(
  normal_100   = qnorm(u(100)),
  normal_2000  = qnorm(u(2000)),
  exponential  = qexp(u(1000)),
  uniform      = qunif(u(1500), -3, 5),
  bimodal      = halves(800, function(p) qnorm(p, -2, 0.5), function(p) qnorm(p, 1, 0.2), 0.6),
  cauchy       = qcauchy(u(500)),
  logistic     = 5 + 0.3 * qlogis(u(3000)),
  rounded      = round(qnorm(u(1200), 50, 14)),
  faithful     = datasets::faithful$eruptions,
  precip       = as.numeric(datasets::precip)
)
one <- function(name) {
  x <- samples[[name]]
  h <- bw.SJ(x, method = "ste")
  tight <- bw.SJ(x, nb = 1000000L, method = "ste", tol = 1e-9 * h)
  embedded <- if (name %in% c("faithful", "precip")) paste0(", \"x\": [", paste(format(x, digits = 10, trim = TRUE), collapse = ", "), "]") else ""
  sprintf("    \"%s\": {\"n\": %d, \"mean\": %.12g, \"default\": %.9g, \"tight\": %.9g%s}", name, length(x), mean(x), h, tight, embedded)
}
cat("{\n  \"made_by\": \"", R.version.string, ", bw_sj_reference.R\",\n  \"samples\": {\n", sep = "")
cat(paste(vapply(names(samples), one, ""), collapse = ",\n"))
cat("\n  }\n}\n")
