from tombola.report.record import versions


def test_versions_name_packages_and_no_host():
    import platform

    found = versions()
    assert {"tombola", "python", "numpy", "numba", "machine"} <= set(found)
    assert "cores" in found["machine"]
    assert not platform.node() or platform.node() not in " ".join(found.values())
