"""`nodegate job`: what is wrong with a job that runs now, from its metrics in Prometheus."""
