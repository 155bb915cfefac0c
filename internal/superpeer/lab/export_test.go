package lab

// KMedoidsMean is the mean latency of k-medoids in the overlay of o, before churn.
func KMedoidsMean(o Options) (float64, error) {
	v, err := NewWatch(o)
	if err != nil {
		return 0, err
	}
	return baselines(v.w, v.w.live(), v.w.cfg.Wanted(v.w.n)).KMedoids.Mean, nil
}
