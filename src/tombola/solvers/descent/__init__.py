"""Descent on rows drawn: SGD, AdaGrad, SAGA, SVRG."""
