import time, cProfile, pstats, sys, pytest
import lakehouse_tests.tables.test_reproduce as t
def test_it(settings, spark):
    of = t.office(settings, spark, **t.WEEK)
    s=time.time(); t.a_history(of); print("history", time.time()-s)
    s=time.time(); of.vacuum(); print("vacuum", time.time()-s)
    s=time.time(); n=len(of.all_again()[:]); print("again", n, time.time()-s)
    pr=cProfile.Profile(); pr.enable(); s=time.time()
    for r in of.revisions(t.METRICS[0])[:10]: of.again(t.METRICS[0],*r)
    print("ten", time.time()-s); pr.disable()
    pstats.Stats(pr).sort_stats("cumulative").print_stats(45)
from lakehouse_tests.conftest import settings, spark
