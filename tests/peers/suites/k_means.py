"""KMeans and MiniBatchKMeans, by scikit-learn's tests of k-means."""

from tombola.estimators import KMeans, MiniBatchKMeans

MODULES = ["sklearn.cluster.tests.test_k_means"]
REPLACE = {"sklearn.cluster.KMeans": KMeans, "sklearn.cluster.MiniBatchKMeans": MiniBatchKMeans}
SHAPE = "The shape of the initial centers .* does not match the"
EXPECTED = {
    "test_kmeans_init_auto_with_initial_centroids": "private: `_n_init`",
    "test_n_init_auto": "private: `_n_init`",
    "test_minibatch_kmeans_init_size": "private: `_init_size`",
    "test_sample_weight_init": "private: `_init_centroids`",
    "test_sample_weight_zero": "private: `_init_centroids`",
    "test_warning_n_init_precomputed_centers[MiniBatchKMeans]": "message",
    "test_minibatch_declared_convergence": "message",
    f"test_wrong_params[param1-{SHAPE} number of clusters-MiniBatchKMeans]": "message",
    f"test_wrong_params[param3-{SHAPE} number of features of the data-MiniBatchKMeans]": "message",
}
