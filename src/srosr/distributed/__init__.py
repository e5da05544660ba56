"""Work on other machines: decisions on Dask collections, and an executor that runs any tasks on a Dask cluster.

The modules in the order of their imports: ``worker_task`` (one task in a worker), ``dask_cluster`` (the executor, and
the versions of the libraries that a worker runs), and ``lazy_decisions`` (decisions on Dask arrays and data frames).
Dask comes with the extra ``cluster`` and is imported at first use.
"""
